// The race check: finds work on two streams that uses the same memory without a wait between them.
// HPU_REFERENCE_STREAM_ORDER=events leaves such waits to the program, as CUDA does. The check compares the
// order that the program requests, not the actual order of execution, so the result does not depend on
// timing.
#pragma once

#include <c10/core/Stream.h>
#include <c10/util/ArrayRef.h>

#include <string>
#include <vector>

#include "memory/block_pool.h"

namespace hpu_reference::memory {

// Records that work with this name, which is issued on the stream now, uses the blocks. Warns of each earlier
// piece of work on the blocks that no wait orders before this work.
void check_races(c10::ArrayRef<BlockUse> uses, c10::StreamId stream, const std::string& name);
// Returns true while the calling thread emits a warning of check_races(). This warning does not count as a
// warning of the operator that the thread runs.
bool is_reporting_race();
// Records that the block is freed. Drops the uses on the block's own stream and on the streams of
// record_stream(), because later uses of the memory are ordered after them.
void remove_recorded_uses(const Block* block, const std::vector<StreamId>& recorded_streams);
// Returns the warnings so far, without duplicates, and clears them.
std::vector<std::string> take_race_reports();

}  // namespace hpu_reference::memory
