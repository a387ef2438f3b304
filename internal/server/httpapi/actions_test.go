package httpapi_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cdui/internal/api"
	"cdui/internal/run"
)

func (w *site) actions(query string) []api.Action {
	w.t.Helper()
	code, raw := w.request("GET", api.PathActions+query, "")
	var list api.ActionList
	if err := json.Unmarshal(raw, &list); err != nil || code != 200 {
		w.t.Fatalf("actions: %d %s", code, raw)
	}
	return list.Actions
}

// Proves M-02: every change that was made is in the log, under the whole id,
// with the user and the address; what was refused or only read isn't.
func TestChangesAreInTheLogOfActions(t *testing.T) {
	w := newSite(t)
	code, raw := w.post(api.PathTokens, `{"name":"ada","role":"submit"}`)
	var ada api.TokenReply
	if err := json.Unmarshal(raw, &ada); err != nil || code != 200 {
		t.Fatalf("%d %s", code, raw)
	}
	submit := `{"name":"n","options":{"command":{"argv":["true","--password=hush"],"cwd":"/"},"hold":true}}`
	code, raw = w.request("POST", api.PathRuns, submit, api.HeaderToken, ada.Token)
	var sent api.SubmitReply
	if err := json.Unmarshal(raw, &sent); err != nil || code != 200 {
		t.Fatalf("%d %s", code, raw)
	}
	id := sent.RunID
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/api/runs/" + id[:8] + "/release", ""},
		{"POST", "/api/runs/" + id + "/pin", ""},
		{"POST", "/api/runs/" + id + "/cancel", ""},
		{"POST", api.PathRunsBulk, `{"runs":[` + submit + `,` + submit + `]}`},
		{"POST", api.PathWorkerEnrollments, `{"name":"box"}`},
		{"POST", api.PathSweeps, sweepBody},
		{"POST", api.PathStudies, studyBody},
		{"DELETE", "/api/tokens/ada", ""},
		{"POST", api.PathShutdown, ""},
	} {
		if code, raw := w.request(c.method, c.path, c.body, api.HeaderToken, secret); code >= 300 {
			t.Fatalf("%s %s: %d %s", c.method, c.path, code, raw)
		}
	}
	// None of these changes anything.
	w.post("/api/runs/ffff/cancel", "")
	w.post(api.PathRuns, "{")
	w.request("POST", "/api/runs/"+id+"/cancel", "", api.HeaderToken, "wrong")
	w.post(api.PathGraphValidate, `{"nodes":[],"edges":[]}`)

	all := w.actions("?limit=1000")
	var said []string
	for _, a := range slices.Backward(all) {
		said = append(said, fmt.Sprintf("%s %s %s", a.User, a.Verb, a.Kind))
		if a.From != "127.0.0.1" || a.TS.IsZero() {
			t.Errorf("from where, and when: %+v", a)
		}
		if strings.Contains(a.Detail+a.ID, "hush") || strings.Contains(a.Detail+a.ID, ada.Token) {
			t.Errorf("it tells a secret: %+v", a)
		}
	}
	want := []string{
		"local add token", "ada submit run", "local release run", "local pin run", "local cancel run", "local submit run",
		"local add worker", "local submit sweep", "local submit study", "local remove token", "local stop server",
	}
	if !slices.Equal(said, want) {
		t.Fatalf("the log says\n%s\nwant\n%s", strings.Join(said, "\n"), strings.Join(want, "\n"))
	}
	for i, object := range map[int]string{10: "ada", 9: id, 8: id, 7: id, 6: id, 4: "box"} {
		if all[i].ID != object {
			t.Errorf("%+v is of %q", all[i], object)
		}
	}
	if !run.ValidID(all[5].ID) || all[5].Detail != "and 1 more" || all[10].Detail != "role submit" || all[1].ID != "ada" {
		t.Errorf("%+v\n%+v\n%+v", all[5], all[10], all[1])
	}
	if page := w.actions(fmt.Sprintf("?limit=2&before=%d", all[3].Seq)); len(page) != 2 || page[0] != all[4] {
		t.Errorf("the page below: %+v", page)
	}
	for _, bad := range []string{"?limit=0", "?limit=1001", "?before=-1"} {
		if code, _ := w.request("GET", api.PathActions+bad, ""); code != 400 {
			t.Errorf("%s: %d", bad, code)
		}
	}
}
