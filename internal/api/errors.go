package api

import (
	"errors"
	"fmt"
	"net/http"
)

// Code classifies an error for programs; it is mapped once to HTTP and once,
// in package cli, to exit codes.
type Code string

// The codes of the error envelope.
const (
	Invalid      Code = "invalid"           // 400
	Unreadable   Code = "unreadable"        // 422: not JSON, or no graph
	TooLarge     Code = "payload_too_large" // 413
	Unauthorized Code = "unauthorized"      // 403
	Misdirected  Code = "misdirected"       // 421: Host not allowed
	NotFound     Code = "not_found"         // 404
	Conflict     Code = "conflict"          // 409
	TooMany      Code = "too_many_requests" // 429
	Unavailable  Code = "unavailable"       // 503
	StorageFull  Code = "storage_full"      // 503
	StorageBusy  Code = "storage_busy"      // 503
	Internal     Code = "internal"          // 500
)

// Status gives the HTTP status of a code.
func (c Code) Status() int {
	switch c {
	case Invalid:
		return http.StatusBadRequest
	case Unreadable:
		return http.StatusUnprocessableEntity
	case TooLarge:
		return http.StatusRequestEntityTooLarge
	case Unauthorized:
		return http.StatusForbidden
	case Misdirected:
		return http.StatusMisdirectedRequest
	case NotFound:
		return http.StatusNotFound
	case Conflict:
		return http.StatusConflict
	case TooMany:
		return http.StatusTooManyRequests
	case Unavailable, StorageFull, StorageBusy:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// Error is what an API call that failed says. Message is a sentence for
// people; Code and Params are for programs.
type Error struct {
	Code    Code           `json:"code"`
	Message string         `json:"message"`
	Params  map[string]any `json:"params,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// ErrorBody is the envelope of every error reply.
type ErrorBody struct {
	Error *Error `json:"error"`
}

// Errorf builds an *Error.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// With adds a param and returns e.
func (e *Error) With(name string, value any) *Error {
	if e.Params == nil {
		e.Params = map[string]any{}
	}
	e.Params[name] = value
	return e
}

// CodeOf gives the code of err, Internal when it carries none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return Internal
}
