package agentcmd

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"cdui/internal/cli/env"
)

const (
	// tokenVariable brings a one-time token, handedVariable the descriptor of a
	// pipe that it was put into.
	tokenVariable  = "CDUI_AGENT_TOKEN"
	handedVariable = "CDUI_AGENT_TOKEN_FD"
	// maxToken is more than any token has.
	maxToken = 4096
)

// takeToken reads the one-time token from where it comes. One that others on
// this machine can see is first hidden from them.
func takeToken(e *env.Env, o *StartOptions) (string, error) {
	inArgs := o.Token != ""
	if inArgs && o.TokenStdin {
		return "", env.Usagef("--token and --token-stdin can't be given together")
	}
	switch {
	case o.TokenStdin:
		token, err := readToken(e.In)
		if err == nil && token == "" {
			return "", env.Usagef("--token-stdin: standard input holds no token")
		}
		return token, err
	case e.Getenv(handedVariable) != "":
		return handed(e)
	case inArgs:
		if err := hide(e, o.Token); err != nil {
			return "", err
		}
		return o.Token, nil
	}
	token := strings.TrimSpace(e.Getenv(tokenVariable))
	if token == "" {
		return "", nil
	}
	return token, hide(e, token)
}

func readToken(r io.Reader) (string, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxToken))
	if err != nil {
		return "", fmt.Errorf("read the one-time token: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

// handed reads a token that this program put into a pipe before it replaced
// itself.
func handed(e *env.Env) (string, error) {
	fd, err := strconv.Atoi(e.Getenv(handedVariable))
	if err != nil || fd < 3 {
		return "", env.Usagef("%s names no descriptor", handedVariable)
	}
	e.Environ = without(e.Environ, handedVariable)
	f := os.NewFile(uintptr(fd), "one-time token")
	defer f.Close()
	return readToken(f)
}

// hide replaces this process by the same command without the token in its
// arguments and environment; it comes back only with an error, or where there
// is nothing to hide it from.
func hide(e *env.Env, token string) error {
	if e.Argv == nil {
		return nil
	}
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("hide the one-time token: %w", err)
	}
	defer read.Close()
	_, err = io.WriteString(write, token)
	write.Close()
	if err != nil {
		return fmt.Errorf("hide the one-time token: %w", err)
	}
	fd := int(read.Fd())
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
		return fmt.Errorf("hide the one-time token: %w", err)
	}
	environ := append(without(e.Environ, tokenVariable, handedVariable), handedVariable+"="+strconv.Itoa(fd))
	if err := unix.Exec(e.Exe, withoutToken(e.Argv), environ); err != nil {
		return fmt.Errorf("hide the one-time token: start %s: %w", e.Exe, err)
	}
	return nil
}

// withoutToken takes --token and its value out of a command line.
func withoutToken(argv []string) []string {
	var out []string
	for i := 0; i < len(argv); i++ {
		switch {
		case argv[i] == "--":
			return append(out, argv[i:]...)
		case argv[i] == "--token":
			i++
		case strings.HasPrefix(argv[i], "--token="):
		default:
			out = append(out, argv[i])
		}
	}
	return out
}

// without takes variables out of an environment.
func without(environ []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(names, name)
	})
}
