package fingerprint

import "cdui/internal/version"

func cduiVersion() string { return version.String() }
