// Finds work on two streams that uses the same memory without a wait between them, which
// HPU_REFERENCE_STREAM_ORDER=events leaves to the program as CUDA does. It goes by the order that the program
// asks for, not by what happens to run first, so that a fast machine finds the same.
#pragma once

#include <c10/core/Stream.h>
#include <c10/util/ArrayRef.h>

#include <string>
#include <vector>

#include "memory/block_pool.h"

namespace hpu_reference::memory {

// Notes that work of that name, issued on the stream now, uses the blocks; warns of each other piece of work
// that it is not ordered with.
void check_order(c10::ArrayRef<BlockUse> uses, c10::StreamId stream, const std::string& name);
// True while the calling thread gives such a warning, which is not one of the operator that it runs.
bool is_reporting_order();
// Notes that the block is freed: its own stream, and those of record_stream, keep it in order from here.
void forget_ordered_uses(const Block* block, const std::vector<StreamId>& recorded_streams);
// The warnings so far, each once; and forgets them.
std::vector<std::string> take_order_reports();

}  // namespace hpu_reference::memory
