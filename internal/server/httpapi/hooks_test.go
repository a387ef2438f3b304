package httpapi_test

import (
	"encoding/json"
	"testing"

	"cdui/internal/api"
)

// Proves S-05: hooks run commands as the control plane's user, so they are for
// admins, reads too; what was added is in the log of actions without its parts.
func TestHooksAreForAdmins(t *testing.T) {
	w := newSite(t)
	_, raw := w.post(api.PathTokens, `{"name":"ada","role":"submit"}`)
	var ada api.TokenReply
	if err := json.Unmarshal(raw, &ada); err != nil {
		t.Fatal(err)
	}
	const body = `{"name":"mail","on":["failed"],"command":["mail-me","--key=hush"]}`
	for _, given := range []string{"", ada.Token} {
		for _, c := range [][3]string{{"GET", api.PathHooks, ""}, {"POST", api.PathHooks, body}, {"DELETE", "/api/hooks/mail", ""}, {"POST", "/api/hooks/mail/test", ""}} {
			if code, raw := w.request(c[0], c[1], c[2], api.HeaderToken, given); code != 403 {
				t.Errorf("%s %s: %d %s", c[0], c[1], code, raw)
			}
		}
	}
	if code, raw := w.post(api.PathHooks, body); code != 200 {
		t.Fatalf("%d %s", code, raw)
	}
	if code, _ := w.post(api.PathHooks, `{"name":"b","on":["failed"],"command":["x"],"tokn":"hush"}`); code != 422 {
		t.Errorf("a field that nobody knows: %d", code)
	}
	if a := w.actions("?limit=1")[0]; a.Verb != "add" || a.Kind != "hook" || a.ID != "mail" || a.Detail != "on [failed]" {
		t.Errorf("%+v", a)
	}
}
