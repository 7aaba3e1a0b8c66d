// Work requests and completions of a recording as lines of a packet script.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "queues/layout.h"
#include "record/script_places.h"

namespace uroce::record {

/// `post` or `recv` of the slot's content; nullopt: the language has no words for it.
std::optional<std::string> send_text(std::span<const std::byte> slot, ScriptPlaces& places);
std::optional<std::string> recv_text(std::span<const std::byte> slot, ScriptPlaces& places);
/// `cqe`, or `rcqe` of a receive.
std::string completion_text(const queues::Cqe& cqe, bool receive, ScriptPlaces& places);

}  // namespace uroce::record
