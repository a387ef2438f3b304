package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"cdui/internal/cli/env"
	"cdui/internal/cli/manpage"
	"cdui/internal/version"
)

func newCompletion(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print a completion script for a shell",
		Example: `  source <(cdui completion bash)
  cdui completion zsh > "${fpath[1]}/_cdui"
  cdui completion fish > ~/.config/fish/completions/cdui.fish`,
		ValidArgs: []string{"bash", "zsh", "fish"},
		Args:      env.Args(1, 1, "one shell: bash, zsh or fish"),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(e.Out, true)
			case "zsh":
				return root.GenZshCompletion(e.Out)
			case "fish":
				return root.GenFishCompletion(e.Out, true)
			}
			return env.Usagef("no completion for %q; there is one for bash, zsh and fish", args[0])
		},
	}
}

func newMan(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write a manual page for each command into a folder",
		Example: `  cdui man ~/.local/share/man/man1
  man cdui-run`,
		Args: env.Args(1, 1, "one folder"),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := args[0]
			if !filepath.IsAbs(dir) {
				dir = filepath.Join(e.Dir, dir)
			}
			if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // manual pages are for everybody
				return fmt.Errorf("make folder: %w", err)
			}
			pages := manpage.Pages(cmd.Root(), version.String())
			for name, page := range pages {
				if err := os.WriteFile(filepath.Join(dir, name), page, 0o644); err != nil { //nolint:gosec // as above
					return fmt.Errorf("write manual page: %w", err)
				}
			}
			e.Print("%d pages in %s", len(pages), dir)
			return nil
		},
	}
}
