package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"cdui/internal/api"
	"cdui/internal/codeset"
	"cdui/internal/fsinfo"
)

// saveWritten keeps the file of a node that writes files at its path in the data
// folder, as if the run had executed here. It stays when the run is deleted.
func (k *Keeper) saveWritten(ctx context.Context, runFolder *os.Root, a api.ArtifactUpload, r io.Reader) (api.UploadReply, error) {
	data, err := os.OpenRoot(k.cfg.DataDir)
	if err != nil {
		return api.UploadReply{}, fmt.Errorf("open data folder: %w", err)
	}
	defer data.Close()
	to := string(a.Path)
	if n, ok := isThere(data, to, a.SHA256, a.Size); ok {
		return api.UploadReply{SHA256: a.SHA256, Size: n}, k.noteSource(runFolder, a, true)
	}
	if space, err := fsinfo.SpaceAt(k.cfg.DataDir); err == nil && a.Size > 0 && uint64(a.Size)+reserve > space.Free {
		return api.UploadReply{}, api.Errorf(api.StorageFull, "the control plane has %s left, too little for %s (%s)", codeset.Size(int64(space.Free)), codeset.Quote(a.Path), codeset.Size(a.Size))
	}
	if err := data.Mkdir(writtenDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return api.UploadReply{}, storageError(fmt.Errorf("receive file: %w", err))
	}
	n, err := receive(ctx, data, writtenDir, to, a.SHA256, k.cfg.Limits.Artifact, r)
	if err != nil {
		return api.UploadReply{}, err
	}
	return api.UploadReply{SHA256: a.SHA256, Size: n}, k.noteSource(runFolder, a, true)
}

// writtenDir is where files for the data folder are while they come in.
const writtenDir = ".incoming"
