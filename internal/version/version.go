// Package version holds the version that this binary was built as. It knows
// nothing else and imports nothing of cdui.
package version

// Version is set when a release is linked:
//
//	go build -ldflags "-X cdui/internal/version.Version=v1.2.3"
//
//nolint:gochecknoglobals // -X reaches package variables only
var Version = "0.1.0-dev"

// Releases is where the releases lie that this one is of, empty when that isn't
// known; a release is linked with it too.
//
//nolint:gochecknoglobals // as above
var Releases = ""

// String gives the version without a leading v.
func String() string {
	if len(Version) > 1 && Version[0] == 'v' {
		return Version[1:]
	}
	return Version
}
