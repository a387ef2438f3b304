package api

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
	Hash  string `json:"hash"`
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"`
}

// CodeReply answers a list of files: what is to be uploaded before a run may
// name it.
type CodeReply struct {
	CodeRef
	// Missing are the hashes of contents that the control plane lacks.
	Missing []string `json:"missing"`
}

// UploadReply says that a file is kept.
type UploadReply struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}
