// Package api is the REST contract: paths, request and response bodies, the
// error envelope and its codes. Server and client share it and nothing else.
//
// It holds types and pure functions only.
package api
