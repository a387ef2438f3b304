package protocol

import "slices"

// Capability names an optional feature. One is used only when both sides list
// it, in hello and in welcome.
type Capability string

// The capabilities.
const (
	CapAck           Capability = "ack"            // records are acknowledged
	CapMounts        Capability = "mounts"         // labelled folders that both machines see
	CapTransfer      Capability = "transfer"       // files go over HTTP, by content hash
	CapMemoryBudget  Capability = "memory_budget"  // cards shared by memory
	CapOneShot       Capability = "one_shot"       // agents that end with their run
	CapS3            Capability = "s3"             // files go through a bucket
	CapRecordOutputs Capability = "record_outputs" // captures are kept and served by the worker
	CapInstances     Capability = "instances"      // one-shot agents that share a credential
	CapRunFacts      Capability = "run_facts"      // run_facts records
	CapFrames        Capability = "frames"         // many records of many runs in one frame
	CapParts         Capability = "parts"          // frames beyond MaxFrameBytes
	CapLogs          Capability = "logs"           // console output on request
	CapBatch         Capability = "batch"          // sharded batches
)

// Capabilities is a set of them.
type Capabilities []Capability

// Has tells whether c is in the set.
func (cs Capabilities) Has(c Capability) bool { return slices.Contains(cs, c) }

// Common gives those that both sets hold, sorted: what a session may use.
func (cs Capabilities) Common(other Capabilities) Capabilities {
	common := Capabilities{}
	for _, c := range cs {
		if other.Has(c) && !common.Has(c) {
			common = append(common, c)
		}
	}
	slices.Sort(common)
	return common
}
