package tui_test

import (
	"flag"
	"fmt"
	"html"
	"image/color"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/charmbracelet/x/vt"

	"cdui/internal/tui/lang"
)

// pictures is the folder that `make pictures` writes to.
var pictures = flag.String("pictures", "", "write pictures of the screens into this folder")

// The size of a cell in a picture.
const (
	cellW = 8.4
	cellH = 18.0
	edge  = 12.0
)

// TestPictures draws the screens of docs/tui.md and README.md from the program, or
// holds that they are what it draws.
func TestPictures(t *testing.T) {
	folder := filepath.Join("..", "..", "docs", "images")
	for _, p := range []struct {
		name    string
		w, h    int
		keys    []string
		options []option
		light   bool
	}{
		{name: "tui-runs", w: 112, h: 24, keys: []string{"down", "down", "down", "down"}},
		{name: "tui-run", w: 112, h: 30, keys: []string{"down", "enter"}},
		{name: "tui-queue", w: 112, h: 20, keys: []string{"tab", "down", "enter"}},
		{name: "tui-workers", w: 112, h: 24, keys: []string{"tab", "tab", "down", "down"}},
		{name: "tui-queue-on", w: 112, h: 24, keys: []string{"down", "s", "right", "down", "right", "space"}},
		{name: "tui-sweep", w: 112, h: 34, keys: sweepKeys("enter", "down", "down", "down", "down")},
		{name: "tui-actions", w: 112, h: 16, keys: []string{"5", "down"}},
		{name: "tui-light-zh", w: 112, h: 24, options: []option{themed("light"), speaking(lang.Chinese)}, light: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newScreen(t, p.w, p.h, small(), p.options...)
			s.press(p.keys...)
			s.text()
			if *pictures == "" {
				is, err := os.ReadFile(filepath.Join(folder, p.name+".svg"))
				if err != nil || string(is) != draw(s, p.light) {
					t.Errorf("%s is not what the program draws (%v): run 'make pictures' and commit it", p.name, err)
				}
				return
			}
			path := filepath.Join(*pictures, p.name+".svg")
			if err := os.WriteFile(path, []byte(draw(s, p.light)), 0o644); err != nil { //nolint:gosec // checked in
				t.Fatal(err)
			}
		})
	}
}

// draw makes an SVG of a screen. Bars, boxes and braille are shapes, so that
// they look the same in any font.
func draw(s *screen, light bool) string {
	em := vt.NewEmulator(s.w, s.h)
	defer em.Close()
	_, _ = em.WriteString("\x1b[20h" + strings.Join(s.m.Lines(), "\r\n"))
	back, fore := "#16181d", "#d6d9df"
	if light {
		back, fore = "#ffffff", "#24292f"
	}
	width, height := float64(s.w)*cellW+2*edge, float64(s.h)*cellH+2*edge
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" font-family="DejaVu Sans Mono, Menlo, Consolas, Noto Sans Mono CJK TC, monospace" font-size="14">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" rx="8" fill="%s"/>`+"\n", back)
	for y := range s.h {
		for x := 0; x < s.w; {
			c := em.CellAt(x, y)
			if c == nil {
				x++
				continue
			}
			n := max(1, c.Width)
			fg, bg := hex(c.Style.Fg, fore), hex(c.Style.Bg, "")
			const bold, reverse = 1 << 0, 1 << 5
			if c.Style.Attrs&reverse != 0 {
				fg, bg = back, fg
			}
			px, py := edge+float64(x)*cellW, edge+float64(y)*cellH
			if bg != "" {
				fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`, px, py, float64(n)*cellW+0.3, cellH+0.3, bg)
			}
			if shape := shapeOf(c.Content, px, py, fg); shape != "" {
				b.WriteString(shape)
				x += n
				continue
			}
			// Letters of one look go into one element.
			run, at := c.Content, x+n
			for n == 1 && at < s.w {
				next := em.CellAt(at, y)
				if next == nil || next.Width != 1 || !next.Style.Equal(&c.Style) || len(next.Content) != 1 {
					break
				}
				run, at = run+next.Content, at+1
			}
			if strings.TrimSpace(run) != "" {
				weight := ""
				if c.Style.Attrs&bold != 0 {
					weight = ` font-weight="bold"`
				}
				fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" fill="%s"%s xml:space="preserve" textLength="%.1f" lengthAdjust="spacingAndGlyphs">%s</text>`,
					px, py+13.5, fg, weight, float64(at-x)*cellW, html.EscapeString(run))
			} else if bg != "" && at > x+1 {
				fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`, px, py, float64(at-x)*cellW+0.3, cellH+0.3, bg)
			}
			if bg != "" && at > x+n && strings.TrimSpace(run) != "" {
				// The background of the other letters lies below them.
				rect := fmt.Sprintf(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`, px, py, float64(at-x)*cellW+0.3, cellH+0.3, bg)
				text := b.String()
				i := strings.LastIndex(text, "<text")
				b.Reset()
				b.WriteString(text[:i] + rect + text[i:])
			}
			x = at
		}
		b.WriteByte('\n')
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func hex(c color.Color, otherwise string) string {
	if c == nil {
		return otherwise
	}
	r, g, b, _ := c.RGBA()
	return fmt.Sprintf("#%02x%02x%02x", r>>8, g>>8, b>>8)
}

// shapeOf draws what is no letter, "" for what is one.
func shapeOf(content string, x, y float64, fill string) string {
	r := []rune(content)
	if len(r) != 1 {
		return ""
	}
	mx, my := x+cellW/2, y+cellH/2
	line := func(x1, y1, x2, y2 float64) string {
		return fmt.Sprintf(`<path d="M%.1f %.1fL%.1f %.1f" stroke="%s"/>`, x1, y1, x2, y2, fill)
	}
	switch c := r[0]; {
	case c >= 0x2800 && c <= 0x28ff:
		var b strings.Builder
		for dot := range 8 {
			if (c-0x2800)>>dot&1 == 0 {
				continue
			}
			col, row := dot/3, dot%3
			if dot >= 6 {
				col, row = dot-6, 3
			}
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="1.1" fill="%s"/>`, x+2.1+float64(col)*4.2, y+2.3+float64(row)*4.5, fill)
		}
		return b.String()
	case c >= 0x2581 && c <= 0x2588:
		h := float64(c-0x2580) / 8 * (cellH - 5)
		return fmt.Sprintf(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`, x, y+cellH-3-h, cellW+0.2, h, fill)
	case c == '─':
		return line(x, my, x+cellW, my)
	case c == '│':
		return line(mx, y, mx, y+cellH)
	case c == '┌':
		return line(mx, my, x+cellW, my) + line(mx, my, mx, y+cellH)
	case c == '┐':
		return line(x, my, mx, my) + line(mx, my, mx, y+cellH)
	case c == '└':
		return line(mx, my, x+cellW, my) + line(mx, y, mx, my)
	case c == '┘':
		return line(x, my, mx, my) + line(mx, y, mx, my)
	}
	return ""
}
