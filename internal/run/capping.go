package run

import (
	"encoding/json"
	"slices"
)

// Truncated ends every string that CapPayload cut.
const Truncated = "... [truncated]"

// CapPayload cuts an event payload to at most limit bytes of canonical JSON;
// limit <= 0 only makes it canonical. First output entries larger than an equal
// share of the limit give way to {output_kind, elided, bytes, cap_bytes, port?},
// then the longest top-level strings are cut, and at last the payload collapses
// to {elided, bytes, cap_bytes} with the few members that say what it was about.
// Capping twice changes nothing more.
func CapPayload(raw json.RawMessage, limit int) json.RawMessage {
	c, err := Canonical(raw)
	if err != nil {
		return payload(field{"elided", true}, field{"bytes", len(raw)}, field{"cap_bytes", limit})
	}
	return CapCanonical(c, limit)
}

// CapCanonical is CapPayload for what is canonical already, as all payloads
// are that this package builds.
func CapCanonical(c json.RawMessage, limit int) json.RawMessage {
	if limit <= 0 || len(c) <= limit {
		return c
	}
	members, ok := objectMembers(c)
	if !ok {
		return payload(field{"elided", true}, field{"bytes", len(c)}, field{"cap_bytes", limit})
	}
	if collapsed(members) {
		return c
	}
	full := len(c)
	elideOutputs(members, limit)
	if c = join(members); len(c) <= limit {
		return c
	}
	cutStrings(members, len(c)-limit)
	if c = join(members); len(c) <= limit {
		return c
	}
	fields := []field{{"elided", true}, {"bytes", full}, {"cap_bytes", limit}}
	for _, name := range []string{"node_id", "status", "run_id", "reason", "error_type"} {
		if i := slices.IndexFunc(members, func(m member) bool { return m.name == name }); i >= 0 {
			fields = append(fields, field{name, members[i].value})
		}
	}
	return payload(fields...)
}

func collapsed(members []member) bool {
	return len(members) >= 3 && members[0].name == "elided" && members[1].name == "bytes" && members[2].name == "cap_bytes"
}

func join(members []member) json.RawMessage {
	fields := make([]field, len(members))
	for i, m := range members {
		fields[i] = field{m.name, m.value}
	}
	return payload(fields...)
}

func elideOutputs(members []member, limit int) {
	for i, m := range members {
		var entries []json.RawMessage
		if m.name != "outputs" || json.Unmarshal(m.value, &entries) != nil || len(entries) == 0 {
			continue
		}
		share := limit / len(entries)
		for j, e := range entries {
			if len(e) <= share {
				continue
			}
			var head struct {
				Kind json.RawMessage `json:"output_kind"`
				Port json.RawMessage `json:"port"`
			}
			_ = json.Unmarshal(e, &head) // an entry that is no object has neither
			if head.Kind == nil {
				head.Kind = json.RawMessage("null")
			}
			fields := []field{{"output_kind", head.Kind}, {"elided", true}, {"bytes", len(e)}, {"cap_bytes", limit}}
			if head.Port != nil {
				fields = append(fields, field{"port", head.Port})
			}
			entries[j] = payload(fields...)
		}
		list := []byte{'['}
		for j, e := range entries {
			if j > 0 {
				list = append(list, ',')
			}
			list = append(list, e...)
		}
		members[i].value = append(list, ']')
	}
}

// cutStrings shortens the longest string members until over bytes are saved.
func cutStrings(members []member, over int) {
	cut := map[int]bool{}
	for over > 0 {
		longest := -1
		for i, m := range members {
			if m.value[0] == '"' && !cut[i] && (longest < 0 || len(m.value) > len(members[longest].value)) {
				longest = i
			}
		}
		if longest < 0 {
			return
		}
		before := members[longest].value
		after := cutString(before, len(before)-over)
		cut[longest] = true
		if len(after) < len(before) {
			over -= len(before) - len(after)
			members[longest].value = after
		}
	}
}

// cutString keeps as much of a canonical JSON string's front as lets the
// result, marker and quotes counted, stay within size bytes.
func cutString(s json.RawMessage, size int) json.RawMessage {
	room := size - len(Truncated) - 2
	body := s[1 : len(s)-1]
	keep := 0
	for keep < len(body) {
		n := escapeLen(body[keep:])
		if keep+n > room {
			break
		}
		keep += n
	}
	out := append([]byte{'"'}, body[:keep]...)
	out = append(out, Truncated...)
	return append(out, '"')
}

// escapeLen is the length of the first character of a canonical string body;
// both halves of a surrogate pair count as one.
func escapeLen(body []byte) int {
	if body[0] != '\\' {
		return 1
	}
	if body[1] != 'u' {
		return 2
	}
	high := body[2] == 'd' && (body[3] == '8' || body[3] == '9' || body[3] == 'a' || body[3] == 'b')
	if high && len(body) >= 12 && body[6] == '\\' && body[7] == 'u' && body[8] == 'd' && body[9] >= 'c' {
		return 12
	}
	return 6
}
