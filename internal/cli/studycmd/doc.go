// Package studycmd has `cdui study`: it queues studies, waits for them, and
// shows the mean and the spread of what was repeated.
package studycmd
