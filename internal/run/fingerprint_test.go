package run_test

import (
	"encoding/json"
	"strings"
	"testing"

	"cdui/internal/run"
)

// CAT-08: one environment has one digest, however its document was written.
func TestFingerprintsAreOfContent(t *testing.T) {
	t.Parallel()
	digest, doc, ok := run.Fingerprint(json.RawMessage(`{"b":[1,2.50,9007199254740993],"a":{"y":null,"x":"\u00e9"}}`))
	if !ok || string(doc) != `{"a":{"x":"é","y":null},"b":[1,2.50,9007199254740993]}` || len(digest) != 64 {
		t.Fatalf("%s %s", digest, doc)
	}
	again, _, _ := run.Fingerprint(json.RawMessage(" {\"a\": {\"x\":\"é\",\n\"y\":null}, \"b\":[ 1,2.50,9007199254740993]} "))
	if again != digest {
		t.Errorf("%s and %s", again, digest)
	}
	if other, _, _ := run.Fingerprint(json.RawMessage(`{"a":1}`)); other == digest {
		t.Error("another document has the same digest")
	}
	for _, bad := range []string{"", "null", "[]", `"x"`, "{", `{} {}`, `{"a":"` + strings.Repeat("x", run.MaxFingerprintBytes) + `"}`} {
		if _, _, ok := run.Fingerprint(json.RawMessage(bad)); ok {
			t.Errorf("%.20q is taken", bad)
		}
	}
}
