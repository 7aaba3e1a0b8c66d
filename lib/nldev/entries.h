// Objects of the daemon as entries of the kernel's tables.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nldev/attributes.h"

namespace uroce::nldev {

/// The tables of objects, in the order of the kernel's summary.
enum class Table : uint8_t { pd, cq, qp, cm_id, mr, ctx, srq };

/// An object as the daemon lists it: names and values are text.
struct Object {
  uint32_t client = 0;  ///< the opened device of a program
  uint32_t id = 0;
  uint32_t process = 0;
  std::vector<std::pair<std::string, std::string>> values{};
};

/// The entry's attributes, with those that `rdma` of iproute2 needs. Numbers that the daemon did not tell this user are
/// 0 there.
Attributes entry_of(Table table, const Object& object);

}  // namespace uroce::nldev
