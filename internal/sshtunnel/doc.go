// Package sshtunnel is a connection to an sshd as the user's own ssh would make
// it: over the hosts of ProxyJump, with the keys, agent or password that the
// account takes, and to no host whose key isn't the one that is known. Over it
// commands run, and a listener is opened at the far end.
//
// Who is asked for a passphrase, a password or about a new host is handed in
// (Asker); an answer that nobody can give is ErrNeedsTyping. The package keeps
// no secret longer than a connection lasts, and knows nothing of workers.
package sshtunnel
