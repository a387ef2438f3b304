package api

import (
	"path"
	"strings"

	"cdui/internal/protocol"
)

// Paths of what runs bring along and leave behind.
const (
	PathCode              = "/api/code"
	PathBlob              = "/api/blobs/{sha256}"
	PathRunArtifactUpload = "/api/runs/{id}/artifacts/upload"
)

// HeaderSHA256 says what an uploaded file's bytes must hash to, in lower-case
// hex.
const HeaderSHA256 = "X-Cdui-SHA256"

// MaxLogBytes bounds the log of a run that a worker brings back.
const MaxLogBytes = 64 << 20

// CodeRef names the folder that a program needs, by the hash of its list of
// files. Files and Bytes are filled in by the control plane.
type CodeRef struct {
	Hash string `json:"hash"`
	// Root is where the folder lies at the submitter, absolute. Paths of the
	// program lie below it and mean the same below wherever it is laid out.
	Root  string `json:"root,omitempty"`
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"`
}

// Rel gives an absolute path of the submitter relative to Root, "." for Root
// itself, and whether it lies there.
func (c CodeRef) Rel(p string) (string, bool) {
	root, p := path.Clean(c.Root), path.Clean(p)
	switch {
	case !path.IsAbs(root) || !path.IsAbs(p):
		return "", false
	case p == root:
		return ".", true
	case root == "/":
		return p[1:], true
	}
	if rel, ok := strings.CutPrefix(p, root+"/"); ok {
		return rel, true
	}
	return "", false
}

// CodeReply answers a list of files: what is to be uploaded before a run may
// name it.
type CodeReply struct {
	CodeRef
	// Missing are the hashes of contents that the control plane lacks.
	Missing []string `json:"missing"`
}

// ArtifactUpload describes a file that a worker brings back; it travels as query
// and headers.
type ArtifactUpload struct {
	// Path is where it goes below the run's artifacts, Source where it lay on
	// the worker, as the run reported it.
	Path   protocol.Path
	Source string
	SHA256 string
	// Size is negative when it isn't told.
	Size int64
}

// UploadReply says that a file is kept.
type UploadReply struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}
