// Reads and writes classic pcap files (little-endian, Ethernet): all that tests need of the format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace uroce::test {

using Bytes = std::vector<std::byte>;

inline Bytes read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot open " + path);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

inline constexpr uint32_t kPcapMagic = 0xa1b2c3d4;
inline constexpr uint32_t kPcapMagicOfNanoseconds = 0xa1b23c4d;  // Wireshark 4 captures with these
inline constexpr std::size_t kPcapFileHeader = 24;
inline constexpr std::size_t kPcapRecordHeader = 16;

/// The frames of a capture, in order. Throws where the file is not such a capture or is cut short.
inline std::vector<Bytes> read_pcap(const std::string& path) {
  const Bytes file = read_file(path);
  const uint32_t magic = file.size() < kPcapFileHeader ? 0 : load_le32(file.data());
  if ((magic != kPcapMagic && magic != kPcapMagicOfNanoseconds) || load_le32(file.data() + 20) != 1) {
    throw std::runtime_error(path + " is not a little-endian Ethernet pcap file");
  }
  std::vector<Bytes> frames;
  for (std::size_t at = kPcapFileHeader; at < file.size();) {
    const std::size_t length = at + kPcapRecordHeader <= file.size() ? load_le32(file.data() + at + 8) : file.size();
    at += kPcapRecordHeader;
    if (length > file.size() || at + length > file.size()) throw std::runtime_error(path + " is cut short");
    const auto* const begin = file.data() + at;
    frames.emplace_back(begin, begin + length);
    at += length;
  }
  return frames;
}

/// Writes `frames`, one millisecond apart.
inline void write_pcap(const std::string& path, std::span<const Bytes> frames) {
  Bytes file(kPcapFileHeader);
  store_le32(file.data(), kPcapMagic);
  store_le32(file.data() + 4, 4u << 16 | 2u);  // version 2.4
  store_le32(file.data() + 16, 65535);
  store_le32(file.data() + 20, 1);  // Ethernet
  uint32_t index = 0;
  for (const Bytes& frame : frames) {
    Bytes record(kPcapRecordHeader);
    store_le32(record.data(), index / 1000);
    store_le32(record.data() + 4, index % 1000 * 1000);
    store_le32(record.data() + 8, static_cast<uint32_t>(frame.size()));
    store_le32(record.data() + 12, static_cast<uint32_t>(frame.size()));
    file.insert(file.end(), record.begin(), record.end());
    file.insert(file.end(), frame.begin(), frame.end());
    ++index;
  }
  std::ofstream out(path, std::ios::binary);
  for (const std::byte b : file) out.put(static_cast<char>(b));
  if (!out.flush()) throw std::runtime_error("cannot write " + path);
}

}  // namespace uroce::test
