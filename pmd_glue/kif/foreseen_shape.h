// Foresees the shape of the next super-frame, so that the kernel copies its parts to where they belong.
//
// A WRITE's first packet is longer than the others, as are a READ response's first and last. So super-frames of two
// shapes take turns. The shape that followed another one is expected to follow it again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace uroce::glue::kif {

/// How a super-frame is cut up.
struct Shape {
  uint32_t headers = 0;  ///< Ethernet to UDP, bytes; 0: a single frame
  uint32_t segment = 0;  ///< bytes behind them, of each datagram but the last
  bool operator==(const Shape&) const = default;
};

class ForeseenShape {
 public:
  /// Expects `first` until something has come.
  explicit ForeseenShape(Shape first) { seen_.front() = {first, 0}; }

  /// Takes note of the shape that has come, and returns the one to expect next.
  Shape after(Shape shape) {
    const std::size_t at = place_of(shape);
    seen_[last_].next = at;
    last_ = at;
    return seen_[seen_[at].next].shape;
  }

 private:
  struct Seen {
    Shape shape;
    std::size_t next = 0;  ///< its place
  };
  /// The oldest one makes room for a new shape.
  std::size_t place_of(Shape shape) {
    for (std::size_t i = 0; i < count_; ++i) {
      if (seen_[i].shape == shape) return i;
    }
    const std::size_t at = count_ < seen_.size() ? count_++ : oldest_++ % seen_.size();
    seen_[at] = {shape, at};
    return at;
  }

  std::array<Seen, 4> seen_{};
  std::size_t count_ = 1;
  std::size_t oldest_ = 0;
  std::size_t last_ = 0;
};

}  // namespace uroce::glue::kif
