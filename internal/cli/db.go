package cli

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
)

func newDB(e *env.Env) *cobra.Command {
	var checkJSON, backupJSON bool
	check := &cobra.Command{
		Use:   "check",
		Short: "Look for damage in the database",
		Long:  "Look for damage in the database: SQLite's own check, and whether every run's log\nis whole. Findings end it with exit code 1.",
		Example: `  cdui db check
  cdui db check --json`,
		Args: env.Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return dbCheck(cmd.Context(), e, checkJSON) },
	}
	env.JSONFlag(check.Flags(), &checkJSON, "print one JSON document", env.One(api.DBCheck{}))
	backup := &cobra.Command{
		Use:     "backup FILE",
		Short:   "Copy the database to a file, while everything goes on",
		Long:    "Copy the database to a file on the control plane's machine, while everything goes\non. A file that is there already is not overwritten.",
		Example: "  cdui db backup cdui-backup.db",
		Args:    env.Args(1, 1, "one file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return dbBackup(cmd.Context(), e, args[0], backupJSON)
		},
	}
	env.JSONFlag(backup.Flags(), &backupJSON, "print one JSON document", env.One(api.BackupReply{}))
	return env.Group(&cobra.Command{
		Use:     "db",
		Short:   "Check and back up the database",
		Example: "  cdui db check\n  cdui db backup cdui-backup.db",
	}, check, backup)
}

func dbCheck(ctx context.Context, e *env.Env, asJSON bool) error {
	reply, err := e.Client().DBCheck(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		if err := e.JSON(reply); err != nil {
			return err
		}
	} else {
		e.Print("%s, %s, %s", text.Plural(int(reply.Runs), "run"), text.Plural(int(reply.Events), "event"), text.Bytes(reply.Bytes))
		for _, f := range reply.Findings {
			e.Print("  %s", phrase.Clean(f))
		}
	}
	if reply.OK {
		if !asJSON {
			e.Print("no damage found")
		}
		return nil
	}
	if asJSON {
		return env.Failed("")
	}
	return env.Failed("%s; restore a backup, see cdui db backup --help", text.Plural(len(reply.Findings), "finding"))
}

func dbBackup(ctx context.Context, e *env.Env, path string, asJSON bool) error {
	if !filepath.IsAbs(path) {
		path = filepath.Join(e.Dir, path)
	}
	reply, err := e.Client().DBBackup(ctx, path)
	if err != nil {
		return err
	}
	if asJSON {
		return e.JSON(reply)
	}
	e.Print("%s (%s)", reply.Path, text.Bytes(reply.Bytes))
	return nil
}
