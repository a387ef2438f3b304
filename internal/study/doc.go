// Package study has the rules of studies: a run that is repeated with derived
// seeds, so that its metrics get a mean and a spread. Step says what is to be
// done next for one, from its attempts and the time; Summarize what came out.
//
// # Words
//
// A repetition is executed by attempts, which are runs. One attempt that
// succeeds scores the repetition. An attempt that was lost (its worker or the
// control plane went away under it) says nothing of what was tried: it isn't
// scored and the repetition gets another one, up to a number of losses. One
// that failed by itself would fail again, so that the repetition ends without a
// score. Resuming a study makes unscored repetitions start over; what they had
// is void then, and stays on record.
//
// It is pure: who submits and who keeps the rows is no business of it.
package study
