// Every message of the protocol with known values, encoded.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace uroce::message {

struct Sample {
  std::string name{};
  std::vector<std::byte> bytes{};
  std::vector<std::byte> oldest{};  ///< as kOldestProtocol has it
  std::function<bool()> same_after_decoding{};
};

std::vector<Sample> samples();

}  // namespace uroce::message
