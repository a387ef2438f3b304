package study

import (
	"maps"
	"math"
	"slices"

	"cdui/internal/run"
)

// Summary is what the scored repetitions say of one series. What can't be said
// is nil: a spread needs two values.
type Summary struct {
	Name string `json:"name"`
	// N counts the numbers, Nonfinite the repetitions that ended with nan or
	// infinity, which are in none of the others.
	N         int      `json:"n"`
	Nonfinite int      `json:"nonfinite"`
	Mean      *float64 `json:"mean"`
	// SD is the sample standard deviation.
	SD *float64 `json:"sd"`
	// CILow and CIHigh bound the mean at the study's confidence.
	CILow  *float64 `json:"ci_low"`
	CIHigh *float64 `json:"ci_high"`
	Min    *float64 `json:"min"`
	Max    *float64 `json:"max"`
}

// Summarize gives a summary of each series, by name.
func Summarize(scored []map[string]run.Last, confidence float64) []Summary {
	values, nonfinite := map[string][]float64{}, map[string]int{}
	for _, metrics := range scored {
		for name, last := range metrics {
			switch f, ok := last.Float(); {
			case !ok:
			case math.IsNaN(f) || math.IsInf(f, 0):
				nonfinite[name]++
				values[name] = append(values[name], nil...)
			default:
				values[name] = append(values[name], f)
			}
		}
	}
	out := make([]Summary, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		s := summarize(values[name], confidence)
		s.Name, s.Nonfinite = name, nonfinite[name]
		out = append(out, s)
	}
	return out
}

func summarize(values []float64, confidence float64) Summary {
	s := Summary{N: len(values)}
	if s.N == 0 {
		return s
	}
	mean, squares := 0.0, 0.0 // Welford's way, which loses no digits
	for i, v := range values {
		d := v - mean
		mean += d / float64(i+1)
		squares += d * (v - mean)
	}
	s.Mean, s.Min, s.Max = finite(mean), finite(slices.Min(values)), finite(slices.Max(values))
	if s.N < 2 {
		return s
	}
	sd := math.Sqrt(squares / float64(s.N-1))
	half := quantile((1+confidence)/2, s.N-1) * sd / math.Sqrt(float64(s.N))
	s.SD, s.CILow, s.CIHigh = finite(sd), finite(mean-half), finite(mean+half)
	return s
}

// finite gives what JSON can hold.
func finite(f float64) *float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil
	}
	return &f
}

// quantile inverts the distribution function of Student's t with df degrees of
// freedom, for p from a half up, by bisection.
func quantile(p float64, df int) float64 {
	low, high := 0.0, 1.0
	for student(high, df) < p && high < 1e9 {
		high *= 2
	}
	for range 200 {
		middle := (low + high) / 2
		if middle == low || middle == high {
			break
		}
		if student(middle, df) < p {
			low = middle
		} else {
			high = middle
		}
	}
	return (low + high) / 2
}

// student is the distribution function of Student's t, for t from 0 up: 1 less
// half the regularised incomplete beta function (DLMF 8.17).
func student(t float64, df int) float64 {
	n := float64(df)
	return 1 - incompleteBeta(n/2, 0.5, n/(n+t*t))/2
}

// incompleteBeta is the regularised one, I_x(a, b), by its continued fraction
// (DLMF 8.17.22) in Lentz's way.
func incompleteBeta(a, b, x float64) float64 {
	switch {
	case x <= 0:
		return 0
	case x >= 1:
		return 1
	case x > (a+1)/(a+b+2):
		return 1 - incompleteBeta(b, a, 1-x) // where the fraction converges fast
	}
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	front := math.Exp(a*math.Log(x)+b*math.Log1p(-x)-la-lb+lab) / a
	const tiny, steps = 1e-300, 500
	c, d := 1.0, 0.0
	f := 1.0
	for i := range steps {
		m := float64(i / 2)
		var term float64
		switch {
		case i == 0:
			term = 1
		case i%2 == 0:
			term = m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		default:
			term = -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		}
		d = 1 + term*d
		if math.Abs(d) < tiny {
			d = tiny
		}
		d = 1 / d
		c = 1 + term/c
		if math.Abs(c) < tiny {
			c = tiny
		}
		f *= c * d
		if math.Abs(c*d-1) < 1e-15 && i > 0 {
			break
		}
	}
	return front * (f - 1)
}
