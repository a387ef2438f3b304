package study

import (
	"encoding/json"
	"math"
	"testing"

	"cdui/internal/run"
)

// Two-sided quantiles as printed tables have them.
func TestQuantilesOfStudentsT(t *testing.T) {
	for _, c := range []struct {
		p    float64
		df   int
		want float64
	}{
		{0.975, 1, 12.7062047},
		{0.975, 2, 4.30265273},
		{0.975, 4, 2.77644511},
		{0.975, 9, 2.26215716},
		{0.975, 29, 2.04522964},
		{0.975, 999, 1.96234146},
		{0.995, 4, 4.60409487},
		{0.95, 4, 2.13184679},
		{0.9995, 1, 636.619249},
		{0.5, 7, 0},
		{0.75, 1, 1},
	} {
		if got := quantile(c.p, c.df); math.Abs(got-c.want) > 1e-6*max(1, c.want) {
			t.Errorf("quantile(%g, %d) = %.8f, want %.8f", c.p, c.df, got, c.want)
		}
	}
}

func last(text string) run.Last {
	switch text {
	case "nan", "inf", "-inf":
		return run.Last{Value: json.RawMessage("null"), Nonfinite: text}
	}
	return run.Last{Value: json.RawMessage(text)}
}

// Proves SW-02: mean, sample standard deviation and the interval by Student's t.
func TestSummaries(t *testing.T) {
	var scored []map[string]run.Last
	for i, v := range []string{"1", "2", "3", "4", "5"} {
		m := map[string]run.Last{"acc": last(v), "odd": last([]string{"nan", "inf", "7", "null", "-inf"}[i]), "gone": last("nan")}
		if i == 2 {
			m["once"] = last("0.5")
		}
		scored = append(scored, m)
	}
	got := Summarize(scored, 0.95)
	if len(got) != 4 || got[0].Name != "acc" || got[1].Name != "gone" || got[2].Name != "odd" || got[3].Name != "once" {
		t.Fatalf("%+v", got)
	}
	acc := got[0]
	sd := math.Sqrt(2.5)
	half := 2.7764451051977987 * sd / math.Sqrt(5)
	for name, pair := range map[string][2]float64{
		"mean": {*acc.Mean, 3}, "sd": {*acc.SD, sd}, "low": {*acc.CILow, 3 - half}, "high": {*acc.CIHigh, 3 + half}, "min": {*acc.Min, 1}, "max": {*acc.Max, 5},
	} {
		if math.Abs(pair[0]-pair[1]) > 1e-9 {
			t.Errorf("%s is %v, want %v", name, pair[0], pair[1])
		}
	}
	if g := got[1]; g.N != 0 || g.Nonfinite != 5 || g.Mean != nil {
		t.Errorf("%+v", g)
	}
	if o := got[2]; o.N != 1 || o.Nonfinite != 3 || *o.Mean != 7 || o.SD != nil || o.CILow != nil {
		t.Errorf("%+v", o)
	}
	if o := got[3]; o.N != 1 || *o.Mean != 0.5 || o.SD != nil {
		t.Errorf("%+v", o)
	}
	if huge := Summarize([]map[string]run.Last{{"x": last("1e308")}, {"x": last("-1e308")}}, 0.95); huge[0].SD != nil {
		t.Errorf("what no float64 holds is said to be %v", *huge[0].SD)
	}
}
