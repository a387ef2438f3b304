package shimhost

// sparesWork: a spare changes its name with its run, which its processes and
// open files survive.
const sparesWork = true
