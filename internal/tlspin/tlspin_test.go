package tlspin_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"cdui/internal/tlspin"
)

func TestOnlyThePinnedKeyIsTrusted(t *testing.T) {
	t.Parallel()
	srv := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer srv.Close()
	pin := tlspin.Of(srv.Certificate())
	other := pin
	other[0] ^= 1
	for _, c := range []struct {
		name string
		pin  tlspin.Pin
		err  error
	}{{"the right pin", pin, nil}, {"another pin", other, tlspin.ErrMismatch}} {
		client := http.Client{Transport: &http.Transport{TLSClientConfig: c.pin.Config()}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", c.name, err, c.err)
		}
		if err == nil {
			resp.Body.Close()
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	var pin tlspin.Pin
	for i := range pin {
		pin[i] = byte(i)
	}
	for _, text := range []string{pin.String(), strings.ToUpper(pin.String()[7:]), base64.StdEncoding.EncodeToString(pin[:])} {
		if !strings.HasPrefix(text, "sha256:") {
			text = "sha256:" + text
		}
		if got, err := tlspin.Parse(text); err != nil || got != pin {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "sha256:", "sha1:00", "sha256:" + strings.Repeat("0", 63), pin.String() + "00"} {
		if got, err := tlspin.Parse(text); err == nil {
			t.Errorf("%q is taken as %v", text, got)
		}
	}
}
