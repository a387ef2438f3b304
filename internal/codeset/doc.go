// Package codeset is the folder that a script or a command needs, as a value:
// which files, by content hash, and which links. It reads one folder (Scan,
// Sum), passes the list on as bytes that have one hash (Manifest), and makes
// the folder again on another machine (Unpack).
//
// What is ignored with .cduiignore and .gitignore stays behind, and so does
// what can't be the same elsewhere: links out of the folder or in a circle,
// pipes, sockets, devices. Each is named with its reason. Any name that a file
// system allows survives.
//
// Lists come from other machines and are not believed: Decode refuses paths
// that leave the folder, entries that lie below a file or a link, and sizes
// beyond the limits. Unpack works inside an os.Root. The package knows no
// network and no store; contents are handed in.
package codeset
