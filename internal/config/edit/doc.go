// Package edit changes single keys of a TOML file and leaves every other byte
// of it as it is: comments, order, spaces, keys that mean nothing here.
//
// The libraries that read TOML lose comments when they write it, so the change
// is made in the text. What the text then says is read again and compared with
// what was meant; a file whose layout is too unusual for that is refused, not
// damaged. Set and Unset are functions of bytes; File carries one out on disk.
// The package knows no key by name.
package edit
