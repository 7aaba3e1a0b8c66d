// The report on a run of the leaf-spine fabric.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "tests/sim/leaf_spine/leaf_spine.h"

namespace uroce::sim {

using Json = nlohmann::ordered_json;

/// Everything that was measured; the same for the same plan, whenever and wherever it ran.
Json report(LeafSpine& fabric);
/// The most important numbers for people.
std::string table_of(const Json& report);

}  // namespace uroce::sim
