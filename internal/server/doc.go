// Package server is the control plane: it puts the store, the run service, the
// local executor and the API together, starts them in order and stops them in
// reverse. Rules about runs stand in the packages below; here is only who is
// made of what.
//
// A control plane owns its data folder while it holds the folder's lock.
// Stopping it leaves executing runs to their shims.
package server
