// Package blobs keeps contents by their SHA-256: what runs bring along at the
// control plane, and what a worker has fetched of it before.
//
// A content is there whole and right, or it is not there: it is written beside
// its place, hashed on the way, synced, and then renamed. Files are 0600. A
// content that came in part can be kept and continued (Resume). The store
// knows nothing of runs: who may read what, and what is still needed, is told
// by its callers.
//
// A Store is safe for concurrent use, and so are several on one folder, but
// for Resume and Prune, which one process does.
package blobs
