package sshtunnel

import (
	"io"
	"net"
	"sync"
)

// listener is the other end of a connection. What it accepts knows deadlines,
// which a channel of ssh doesn't, and without which nobody can be turned away
// for saying nothing.
type listener struct {
	net.Listener
	wg sync.WaitGroup
}

// Accept waits for somebody who connects at the other end.
func (l *listener) Accept() (net.Conn, error) {
	channel, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	near, far := net.Pipe()
	l.wg.Go(func() { carry(far, channel) })
	l.wg.Go(func() { carry(channel, far) })
	return near, nil
}

// carry takes bytes from one to the other until either has ended.
func carry(to, from net.Conn) {
	_, _ = io.Copy(to, from) // the end of either is the end of both
	to.Close()
	from.Close()
}
