package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"cdui/internal/api"
	"cdui/internal/store"
)

// keepActions is how many actions the log holds.
const keepActions = 100_000

// act is what a route does, for the log of actions.
type act struct{ verb, kind string }

func (s *Server) actionRoutes() []route {
	return []route{{
		method: "GET", path: api.PathActions, doc: "Who changed what, newest first", response: api.ActionList{}, call: s.listActions,
		params: []param{
			{"limit", "integer", "1 to 1000, 50 by default", false},
			{"before", "integer", "only actions with a lower seq", false},
		},
	}}
}

func (s *Server) listActions(r *http.Request) (any, error) {
	q := r.URL.Query()
	limit, err := whole(q, "limit", 50, 1, 1000)
	if err != nil {
		return nil, err
	}
	before, err := whole(q, "before", 0, 0, math.MaxInt)
	if err != nil {
		return nil, err
	}
	list, err := s.cfg.Store.Actions(r.Context(), int64(before), limit)
	if err != nil {
		return nil, err
	}
	out := api.ActionList{Actions: make([]api.Action, len(list))}
	for i, a := range list {
		out.Actions[i] = api.Action{Seq: a.Seq, TS: a.At, User: a.User, From: a.Peer, Verb: a.Verb, Kind: a.Kind, ID: a.Object, Detail: a.Detail}
	}
	return out, nil
}

// note keeps that a request changed something, before it is answered. The
// change has been made by then, so an action that can't be kept is no reason
// to call the request failed.
func (s *Server) note(ctx context.Context, from origin, a act, object, detail string) {
	entry := store.Action{
		At: time.Now().UTC(), User: from.user, Peer: from.peer,
		Verb: a.verb, Kind: a.kind, Object: clip(object), Detail: clip(detail),
	}
	if err := s.cfg.Store.AddAction(context.WithoutCancel(ctx), entry, keepActions); err != nil {
		s.log.ErrorContext(ctx, "an action is not in the log", "verb", a.verb, "kind", a.kind, "id", entry.Object, "error", err)
	}
	s.actions.Add(1)
}

// origin is who asks for a change, and from where.
type origin struct{ user, peer string }

// origin tells it of a request that bears a token.
func (s *Server) origin(r *http.Request, secret string) origin {
	name, _, known := s.caller(secret)
	if known {
		name = cmp.Or(name, api.LocalUser)
	}
	peer := r.RemoteAddr
	if at, err := netip.ParseAddrPort(peer); err == nil {
		peer = at.Addr().Unmap().String()
	}
	return origin{user: name, peer: peer}
}

// maxActionText bounds what an action says, in bytes.
const maxActionText = 200

func clip(text string) string {
	if len(text) > maxActionText {
		text = text[:maxActionText]
	}
	return strings.ToValidUTF8(text, "")
}

// changed says what a reply tells of the thing that was changed: its whole id,
// since the request may have named a part of it, and what is worth a word.
// Replies that hold secrets give names alone.
func changed(r *http.Request, reply any) (object, detail string) {
	switch v := reply.(type) {
	case api.SubmitReply:
		return v.RunID, existing(v.Existing, v.Name)
	case api.BulkReply:
		if len(v.Runs) > 0 {
			return v.Runs[0].RunID, fmt.Sprintf("and %d more", len(v.Runs)-1)
		}
	case api.CancelReply:
		return v.RunID, fmt.Sprintf("grace %g s", v.GraceS)
	case api.RunState:
		return v.RunID, ""
	case api.SweepReply:
		return v.SweepID, existing(v.Existing, v.Name)
	case api.SweepCancelReply:
		return v.SweepID, fmt.Sprintf("%d variants", v.Cancelled)
	case api.SweepRerunReply:
		return v.SweepID, fmt.Sprintf("%d variants", len(v.Variants))
	case api.StudyReply:
		return v.StudyID, existing(v.Existing, v.Name)
	case api.Study:
		return v.StudyID, v.Name
	case api.QueueHold:
		return v.Key, v.Note
	case api.DevicePolicy:
		return v.Worker + " " + v.Device, policyText(v)
	case api.EnrollmentReply:
		return v.Name, "valid until " + v.ExpiresAt.UTC().Format(time.RFC3339)
	case api.EnrollReply:
		return v.Name, ""
	case api.TokenReply:
		return v.Name, "role " + string(v.Role)
	case api.Tunnel:
		return v.Worker, ""
	case api.Hook:
		return v.Name, fmt.Sprint("on ", v.On)
	case api.BackupReply:
		return v.Path, ""
	case api.ShutdownReply:
		return "", fmt.Sprintf("%d runs go on", v.Left)
	}
	return r.PathValue("id"), ""
}

func existing(was bool, name string) string {
	if was {
		return strings.TrimSpace("already there: " + name)
	}
	return name
}

func policyText(p api.DevicePolicy) string {
	var parts []string
	if p.Cap > 0 {
		parts = append(parts, fmt.Sprintf("cap %d", p.Cap))
	}
	if p.Shared {
		parts = append(parts, "shared")
	}
	if p.Cordoned {
		parts = append(parts, strings.TrimSuffix("cordoned: "+p.Reason, ": "))
	}
	return cmp.Or(strings.Join(parts, ", "), "as the settings say")
}
