package sheet_test

import (
	"testing"

	"cdui/internal/sheet"
)

func TestTextIsNoFormula(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "lr": "lr", "=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@x": "'@x", "\tx": "'\tx", "\rx": "'\rx", "a=b": "a=b", "é": "é",
	} {
		if got := sheet.Text(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func TestCSVHasAMarkAndQuotesWhatNeedsIt(t *testing.T) {
	got, err := sheet.CSV([][]string{{"a", "b"}, {"x,y", "say \"hi\"\n"}})
	if want := "\ufeffa,b\n\"x,y\",\"say \"\"hi\"\"\n\"\n"; err != nil || string(got) != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}
