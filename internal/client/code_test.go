package client_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"cdui/internal/api"
	"cdui/internal/client"
	"cdui/internal/codeset"
)

// keeper plays a control plane that has nothing.
type keeper struct {
	mu   sync.Mutex
	list codeset.Manifest
	got  map[string]string
}

func (k *keeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return // it went away
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	var reply any = api.UploadReply{}
	sum := strings.TrimPrefix(r.URL.Path, "/api/blobs/")
	switch {
	case r.Method == "POST" && r.URL.Path == api.PathCode:
		if k.list, err = codeset.Decode(raw); err != nil {
			w.WriteHeader(http.StatusUnprocessableEntity)
			reply = api.ErrorBody{Error: api.Errorf(api.Unreadable, "%v", err)}
			break
		}
		missing := []string{}
		for _, c := range k.list.Contents() {
			if _, ok := k.got[c.SHA256]; !ok {
				missing = append(missing, c.SHA256)
			}
		}
		reply = api.CodeReply{CodeRef: api.CodeRef{Hash: codeset.Hash(raw), Files: len(k.list.Files())}, Missing: missing}
	case r.Method == "PUT" && codeset.Hash(raw) == sum:
		k.got[sum] = string(raw)
	default:
		w.WriteHeader(http.StatusBadRequest)
		reply = api.ErrorBody{Error: api.Errorf(api.Invalid, "the bytes are not those of the hash")}
	}
	_ = json.NewEncoder(w).Encode(reply)
}

func TestAFolderIsSentOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := map[string]string{
		".gitignore": "*.pt\n", "train.py": "import a", "w.pt": "weights", "empty": "", "same": "import a", "bad\xff \n": "odd", "sub/data.bin": strings.Repeat("\x00", 1<<20),
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k := &keeper{got: map[string]string{}}
	c := serve(t, k.ServeHTTP)
	var shown codeset.Found
	var sent int64
	o := client.CodeOptions{
		Preview: func(f codeset.Found) error { shown = f; return nil },
		Sent:    func(n int64) { sent += n },
	}
	ref, err := c.UploadCode(t.Context(), dir, o)
	if err != nil || ref.Root != dir || ref.Files != 6 || len(shown.Files) != 6 || sent != 1<<20+8+3+5 {
		t.Fatalf("%+v %v, %d shown, %d sent", ref, err, len(shown.Files), sent)
	}
	for _, f := range k.list.Files() {
		if want := files[string(f.Path)]; k.got[f.SHA256] != want {
			t.Errorf("%q came as %.20q", f.Path, k.got[f.SHA256])
		}
	}
	sent = 0
	if again, err := c.UploadCode(t.Context(), dir, o); err != nil || again != ref || sent != 0 {
		t.Errorf("%+v %v, %d sent again", again, err, sent)
	}
	stop := errors.New("no, too much")
	if _, err := c.UploadCode(t.Context(), dir, client.CodeOptions{Preview: func(codeset.Found) error { return stop }}); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
	if _, err := c.UploadCode(t.Context(), filepath.Join(dir, "nothing"), o); err == nil {
		t.Error("a folder that isn't there was sent")
	}
}

func TestAFileThatChangesMeanwhileIsNamed(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"shorter": "ab", "other": "abcdeX", "gone": ""} {
		dir := t.TempDir()
		path := filepath.Join(dir, "big file")
		if err := os.WriteFile(path, []byte("abcdef"), 0o600); err != nil {
			t.Fatal(err)
		}
		k := &keeper{got: map[string]string{}}
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == api.PathCode {
				var err error
				if err = os.Remove(path); err == nil && content != "" {
					err = os.WriteFile(path, []byte(content), 0o600)
				}
				if err != nil {
					t.Error(err)
				}
			}
			k.ServeHTTP(w, r)
		})
		if _, err := c.UploadCode(t.Context(), dir, client.CodeOptions{}); err == nil || !strings.Contains(err.Error(), `"big file" changed`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
