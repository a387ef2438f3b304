// Package studies keeps the control plane's studies and drives each to its end:
// it submits the repetitions' attempts through the run service, stops them at
// the study's budgets, and tells what came out.
//
// # Authority
//
// A study's row says what was asked, its attempts and how they ended; runs are
// server/runs' alone. What is to be done next is decided by study.Step; this
// package reads what Step needs, does what it says, and keeps what came of it.
//
// # Order and failure
//
// An attempt's run carries an idempotency key that is made of the study, the
// repetition and the attempt. It is submitted first and noted on the row then;
// a control plane that dies between the two finds the run by its key (adopt)
// and never makes a second one. Why an attempt is stopped is noted before it is
// told to stop. How it ended, with its metrics, is copied onto the row when it is
// seen ended, so that it outlives the run.
//
// One goroutine, Drive, goes through the studies that are under way whenever a
// run ends and when a budget runs out. It and the API's calls take turns under
// one lock.
package studies
