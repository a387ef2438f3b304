package screen

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	"cdui/internal/api"
	"cdui/internal/client"
	"cdui/internal/run"
)

// Replies come with the screen that asked: another one drops them.
type (
	runLoaded struct {
		of      *Run
		row     api.Run
		metrics api.Metrics
		files   []api.Artifact
		err     error
	}
	runEvents struct {
		of   *Run
		page api.Events
		err  error
	}
	runOutput struct {
		of    *Run
		chunk client.LogChunk
		err   error
	}
)

// Init reads the run and follows it.
func (s *Run) Init() tea.Cmd { return tea.Batch(s.load(), s.readOutput(0)) }

func (s *Run) load() tea.Cmd {
	source, ctx, id := s.w.Source, s.ctx, s.id
	return func() tea.Msg {
		m := runLoaded{of: s}
		if m.row, m.err = source.Run(ctx, id); m.err != nil {
			return m
		}
		if m.metrics, m.err = source.Metrics(ctx, id, ""); m.err != nil {
			return m
		}
		files, err := source.Artifacts(ctx, id, "")
		m.files, m.err = files.Artifacts, err
		return m
	}
}

const (
	// readPace is the least time between two reads of a run that has news.
	readPace = 100 * time.Millisecond
	readWait = 30 * time.Second
	// readAgain is how long to wait when the control plane is away.
	readAgain = 2 * time.Second
)

// pause waits, or ends with the screen.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (s *Run) readEvents(after time.Duration) tea.Cmd {
	source, ctx, id, cursor := s.w.Source, s.ctx, s.id, s.cursor
	return func() tea.Msg {
		if after > 0 {
			pause(ctx, after)
		}
		page, err := source.Events(ctx, id, cursor, readWait, eventsPage)
		return runEvents{of: s, page: page, err: err}
	}
}

func (s *Run) readOutput(after time.Duration) tea.Cmd {
	source, ctx, id := s.w.Source, s.ctx, s.id
	offset, size := s.output.offset, s.output.size
	return func() tea.Msg {
		if after > 0 {
			pause(ctx, after)
		}
		if offset < 0 {
			head, err := source.Log(ctx, id, 0, 1, 0)
			if err != nil {
				return runOutput{of: s, err: err}
			}
			offset = max(0, head.Size-consoleTail)
		} else if size-offset > consoleLag {
			offset = size - consoleTail
		}
		chunk, err := source.Log(ctx, id, offset, consoleTail, readWait)
		return runOutput{of: s, chunk: chunk, err: err}
	}
}

func (s *Run) takeLoaded(m runLoaded) tea.Cmd {
	if m.err != nil {
		return s.failed(m.err, s.load)
	}
	first := !s.loaded
	s.err, s.loaded, s.row, s.files = nil, true, m.row, m.files
	last := int64(0)
	if m.row.LastCursor != nil {
		last = *m.row.LastCursor
	}
	s.metrics.takeAll(m.metrics, last)
	if first {
		return tea.Batch(s.readEvents(0), s.measure())
	}
	return s.measure()
}

// failed says what went wrong and tries again, unless the run is gone.
func (s *Run) failed(err error, again func() tea.Cmd) tea.Cmd {
	if s.ctx.Err() != nil {
		return nil
	}
	s.err = err
	if api.CodeOf(err) == api.NotFound {
		s.gone = true
		return nil
	}
	ctx, cmd := s.ctx, again()
	return func() tea.Msg {
		pause(ctx, readAgain)
		return cmd()
	}
}

func (s *Run) takeEvents(m runEvents) tea.Cmd {
	if m.err != nil {
		return s.failed(m.err, func() tea.Cmd { return s.readEvents(0) })
	}
	s.err = nil
	for _, e := range m.page.Events {
		s.nodes.Apply(e)
		switch e.Type {
		case run.EventMetric:
			s.metrics.takeEvent(e)
		case run.EventArtifact:
			s.files = appendArtifact(s.files, e)
		}
	}
	s.events = append(s.events, m.page.Events...)
	if over := len(s.events) - eventsKept; over > eventsKept/4 {
		s.events = append([]api.Event{}, s.events[over:]...)
		s.eventTable.Cursor = max(0, s.eventTable.Cursor-over)
	}
	s.cursor = max(s.cursor, m.page.Cursor)
	if !m.page.Active && len(m.page.Events) == 0 {
		s.ended = true
		return s.load() // as it ended
	}
	after := time.Duration(0)
	if n := len(m.page.Events); n > 0 && n < eventsPage {
		after = readPace
	}
	return tea.Batch(s.readEvents(after), s.measure())
}

func (s *Run) takeOutput(m runOutput) tea.Cmd {
	if m.err != nil {
		if api.CodeOf(m.err) == api.NotFound {
			return nil
		}
		return s.failed(m.err, func() tea.Cmd { return s.readOutput(0) })
	}
	s.output.take(m.chunk, s.w.Lang)
	if s.output.ended {
		return nil
	}
	return s.readOutput(readPace)
}

// Output is the reply that output comes with, for whoever measures.
func (s *Run) Output(c client.LogChunk) tea.Msg { return runOutput{of: s, chunk: c} }
