// Package sshconfig tells what an ssh client would do with a host: where it
// lies, who logs in, with which keys, over which others, and which host keys
// are known. The answer is that of `ssh -G`, so that Include, Match and tokens
// mean what they mean to the user's own ssh; where no ssh client is installed,
// a library reads the same files.
//
// It dials nothing and reads no key.
package sshconfig
