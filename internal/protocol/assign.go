package protocol

import (
	"encoding/json"
	"time"
)

// Script is a Python script to run as Python would run it. With Assign.Code,
// Path and Cwd are relative to that folder, and an empty Cwd is the folder
// itself; without it they are absolute on the worker.
type Script struct {
	Path string            `json:"path"`
	Args []string          `json:"args,omitempty"`
	Env  map[string]string `json:"env,omitempty"`
	Cwd  string            `json:"cwd,omitempty"`
	// Interpreter and Venv are paths on the worker; without them the agent's
	// own interpreter is used.
	Interpreter string `json:"interpreter,omitempty"`
	Venv        string `json:"venv,omitempty"`
	// Params is what cdui.params() returns, a JSON object.
	Params json.RawMessage `json:"params,omitempty"`
}

// Command is any program, started by the shim itself. Cwd as in Script.
type Command struct {
	Argv []string          `json:"argv"`
	Env  map[string]string `json:"env,omitempty"`
	Cwd  string            `json:"cwd,omitempty"`
	Venv string            `json:"venv,omitempty"`
}

// Graph is a graph for the Python engine.
type Graph struct {
	// Prepared is the graph as the engine executes it: expanded, checked,
	// levelled, its secret params in place.
	Prepared json.RawMessage `json:"prepared"`
	// Inputs are the values of a graph that is called as a function.
	Inputs map[string]json.RawMessage `json:"inputs,omitempty"`
	// MaxParallel is how many of its nodes may execute at once, 0 the engine's
	// own choice.
	MaxParallel int `json:"max_parallel,omitempty"`
}

// Secrets are environment variables that must not reach a log.
type Secrets map[string]string

// String hides the values.
func (Secrets) String() string { return "[hidden]" }

// Code is a folder that a program needs, by content: the worker fetches the
// files that its cache lacks.
type Code struct {
	// Hash is over the list of files; equal hashes are equal folders.
	Hash  string `json:"hash"`
	Files []File `json:"files"`
}

// Backend is a way for files to get to a worker and back.
type Backend string

// The backends.
const (
	BackendLocal    Backend = "local"    // same machine: the control plane's folder itself
	BackendMount    Backend = "mount"    // a folder that both machines see
	BackendTransfer Backend = "transfer" // over HTTP, to and from the control plane
	BackendS3       Backend = "s3"       // through a bucket
)

// Storage is where the files of a run live.
type Storage struct {
	Backend Backend `json:"backend"`
	// Label names the mount; Folder is the path of BackendLocal.
	Label  string `json:"label,omitempty"`
	Folder string `json:"folder,omitempty"`
	// Inputs are uploads that the run reads, relative to its data folder.
	Inputs []File `json:"inputs,omitempty"`
	S3     *S3    `json:"s3,omitempty"`
}

// File is one file by its content. A link has no content of its own.
type File struct {
	Path       Path   `json:"path"`
	SHA256     string `json:"sha256,omitempty"`
	Size       int64  `json:"size"`
	Executable bool   `json:"executable,omitempty"`
	// Link makes it a symbolic link to another path of the folder.
	Link Path `json:"link,omitempty"`
	// Key is the object's in BackendS3.
	Key string `json:"key,omitempty"`
}

// S3 is the bucket of BackendS3.
type S3 struct {
	Endpoint    string        `json:"endpoint,omitempty"`
	Region      string        `json:"region,omitempty"`
	Bucket      string        `json:"bucket"`
	Prefix      string        `json:"prefix"`
	Credentials S3Credentials `json:"credentials"`
}

// S3Credentials are limited to one run's prefix and inputs.
type S3Credentials struct {
	AccessKey    string     `json:"access_key"`
	SecretKey    string     `json:"secret_key"`
	SessionToken string     `json:"session_token,omitempty"`
	Expires      *time.Time `json:"expires,omitempty"`
}

// String hides the keys.
func (S3Credentials) String() string { return "[hidden]" }
