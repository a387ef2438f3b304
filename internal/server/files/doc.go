// Package files is what the control plane keeps of runs' files: the folders
// that programs bring along (lists of files, and their contents by hash), and
// what runs on workers leave: artifacts and logs, in <data>/runs/<run id>/.
//
// Lists, paths and contents come from elsewhere and are not believed: lists
// are checked as a whole, contents are hashed on their way to the disk, and
// artifacts are written inside an os.Root. Who may send and read what is the
// API's part; here are limits, places and the question which contents a run
// needs. The database holds no file.
package files
