package protocol_test

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"cdui/internal/protocol"
)

// TGT-03, TGT-04: the pattern, and the two names with a meaning of their own.
func TestValidName(t *testing.T) {
	for name, want := range map[string]error{
		"gpu-box-1": nil, "0": nil, "a": nil, strings.Repeat("a", 63): nil, "locally": nil, "any-1": nil, "a-": nil,
		"local": protocol.ErrReservedName, "any": protocol.ErrReservedName,
		"": protocol.ErrBadName, "-a": protocol.ErrBadName, "A": protocol.ErrBadName, "a_b": protocol.ErrBadName, "a.b": protocol.ErrBadName,
		"a/b": protocol.ErrBadName, "a b": protocol.ErrBadName, "ä": protocol.ErrBadName, "a\n": protocol.ErrBadName, strings.Repeat("a", 64): protocol.ErrBadName,
	} {
		if err := protocol.ValidName(name); !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("%q: %v, want %v", name, err, want)
		}
	}
	for name, want := range map[string]error{
		"box": nil, "box.n7": nil, "box.local": nil,
		"any.n7": protocol.ErrReservedName, "box.": protocol.ErrBadName, ".n7": protocol.ErrBadName, "box.n7.x": protocol.ErrBadName, "box.N": protocol.ErrBadName,
	} {
		if err := protocol.ValidRegisteredName(name); !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("%q: %v, want %v", name, err, want)
		}
	}
}

// PRO-02: only what both list is used.
func TestCommonCapabilities(t *testing.T) {
	ours := protocol.Capabilities{protocol.CapParts, protocol.CapFrames, protocol.CapAck, protocol.CapFrames}
	theirs := protocol.Capabilities{"of_a_later_release", protocol.CapAck, protocol.CapFrames}
	want := protocol.Capabilities{protocol.CapAck, protocol.CapFrames}
	if got := ours.Common(theirs); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := theirs.Common(ours); !reflect.DeepEqual(got, want) {
		t.Errorf("the other way round: got %v, want %v", got, want)
	}
	if got := ours.Common(nil); len(got) != 0 {
		t.Errorf("got %v with a peer that lists nothing", got)
	}
}

// PRO-03, ONE-04, W-01: the names that peers of the format know, and ours.
func TestTheCapabilitiesHaveTheirNames(t *testing.T) {
	want := map[string]protocol.Capability{
		"ack": protocol.CapAck, "mounts": protocol.CapMounts, "transfer": protocol.CapTransfer, "memory_budget": protocol.CapMemoryBudget,
		"one_shot": protocol.CapOneShot, "s3": protocol.CapS3, "record_outputs": protocol.CapRecordOutputs, "instances": protocol.CapInstances,
		"run_facts": protocol.CapRunFacts, "frames": protocol.CapFrames, "parts": protocol.CapParts, "logs": protocol.CapLogs, "batch": protocol.CapBatch,
	}
	for name, c := range want {
		if string(c) != name {
			t.Errorf("%q is called %q", name, c)
		}
	}
}

// PRO-05: the protocol's number stays where the format has it; what a peer
// doesn't know is a capability, and takes part in nothing.
func TestTheProtocolGrowsByCapabilities(t *testing.T) {
	env, err := protocol.DecodeFromAgent([]byte(`{"type":"hello","epoch":0,"name":"box","version":"1","protocol_version":3,"nonce":"n","capabilities":["ack","of_a_later_release"],"later":{"a":1}}`))
	if err != nil || protocol.Version != 3 {
		t.Fatalf("version %d, %v", protocol.Version, err)
	}
	h, ok := env.Frame.(*protocol.Hello)
	if !ok || h.Protocol != protocol.Version {
		t.Fatalf("%+v", env.Frame)
	}
	if common := h.Capabilities.Common(protocol.Capabilities{protocol.CapAck, protocol.CapFrames}); !reflect.DeepEqual(common, protocol.Capabilities{protocol.CapAck}) {
		t.Errorf("in use: %v", common)
	}
}

func TestSecondsNeverOverflow(t *testing.T) {
	for s, want := range map[protocol.Seconds]time.Duration{
		0: 0, -5: 0, 0.5: 500 * time.Millisecond, 86400: 24 * time.Hour, 1e300: 1e9 * time.Second,
		protocol.Seconds(math.Inf(1)): 1e9 * time.Second, protocol.Seconds(math.Inf(-1)): 0,
	} {
		if got := s.Duration(); got != want {
			t.Errorf("%v s: %v, want %v", float64(s), got, want)
		}
	}
	if got := protocol.Seconds(math.NaN()).Duration(); got != 0 {
		t.Errorf("NaN: %v", got)
	}
	if got := protocol.SecondsOf(1500 * time.Millisecond); got != 1.5 {
		t.Errorf("got %v", got)
	}
}

func TestWhoIsRefusedAndWhoMayTryAgain(t *testing.T) {
	refused := map[int]bool{protocol.CloseForbidden: true, protocol.CloseUnauthorized: true, protocol.CloseRejected: true}
	for code := range closeCodes(t) {
		if protocol.Refused(code) != refused[code] {
			t.Errorf("%d: %v", code, protocol.Refused(code))
		}
	}
	if protocol.Refused(1006) {
		t.Error("a lost connection is no refusal")
	}
}

// FRM-02: an instance registers as <name>.<instance>.
func TestAnInstanceHasANameOfItsOwn(t *testing.T) {
	h := protocol.Hello{Name: "slurm", Instance: "n7"}
	if got := h.RegisteredName(); got != "slurm.n7" {
		t.Errorf("got %q", got)
	}
	h.Instance = ""
	if got := h.RegisteredName(); got != "slurm" {
		t.Errorf("got %q", got)
	}
}
