package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"cdui/internal/config/edit"
)

// SetContext writes a context into the file: all its keys, and with use that it
// is the current one. Keys of it that mean nothing here stay.
func (f File) SetContext(name string, c Context, use bool) error {
	return f.change(func(text []byte) ([]byte, error) {
		var err error
		for _, key := range []struct{ name, value string }{
			{"url", c.URL}, {"token_file", c.TokenFile}, {"ca", c.CA}, {"pin", c.Pin},
		} {
			if key.value == "" {
				text, err = edit.Unset(text, contextsKey, name, key.name)
			} else {
				text, err = edit.Set(text, key.value, contextsKey, name, key.name)
			}
			if err != nil {
				return nil, err
			}
		}
		if use {
			return edit.Set(text, name, currentKey)
		}
		return text, nil
	})
}

// UseContext makes a context the current one.
func (f File) UseContext(name string) error {
	return f.change(func(text []byte) ([]byte, error) { return edit.Set(text, name, currentKey) })
}

// RemoveContext takes a context out of the file, and the choice of it too.
func (f File) RemoveContext(name string) error {
	return f.change(func(text []byte) ([]byte, error) {
		text, err := edit.Unset(text, contextsKey, name)
		if err == nil && f.Current == name {
			text, err = edit.Unset(text, currentKey)
		}
		return text, err
	})
}

func (f File) change(change func([]byte) ([]byte, error)) error {
	if err := edit.File(f.Path, change); err != nil {
		return fmt.Errorf("change config file %s: %w", f.Path, err)
	}
	return nil
}

// TokenPath is where the token of a context lies that was typed or piped in.
func (f File) TokenPath(name string) string {
	return filepath.Join(filepath.Dir(f.Path), "tokens", name)
}

// DropToken takes it away again, if it is there.
func (f File) DropToken(name string) error {
	if err := os.Remove(f.TokenPath(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove token: %w", err)
	}
	return nil
}

// KeepToken writes such a token, for its owner alone.
func (f File) KeepToken(name, token string) error {
	path := f.TokenPath(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make folder of tokens: %w", err)
	}
	return edit.Write(path, []byte(token+"\n"))
}
