// The effect of a change of a header's field on the ICRC of a frame, without a look at the frame.
//
// CRC-32 is linear: the CRCs of two messages of one length differ by what their difference alone gives. So a sender can
// change a field of a finished frame, and a receiver that was not told a field can tell it from the ICRC.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace uroce::wire {

/// The field has 16 bits. One thread; it remembers factors for the lengths of frames that came last.
class IcrcChange {
 public:
  /// The bits of the ICRC (as a little-endian number) that change where a field changes by `bits` (as a big-endian
  /// number). `behind`: bytes from the field's end to the ICRC, less than 128 KiB.
  uint32_t of(uint16_t bits, std::size_t behind) { return of_field(bits, forward(behind)); }
  /// The inverse: the bits of the field whose change changes the ICRC by `change`; nullopt where no change of this
  /// field does. One in 65,536 damaged frames looks like one with a change of the field.
  std::optional<uint16_t> bits_for(uint32_t change, std::size_t behind) { return field_of(change, backward(behind)); }

 private:
  struct Factor {
    std::size_t behind = SIZE_MAX;
    uint32_t power = 0;
  };
  static constexpr std::size_t kRemembered = 16;

  static uint32_t of_field(uint16_t bits, uint32_t power);
  static std::optional<uint16_t> field_of(uint32_t change, uint32_t power);
  uint32_t forward(std::size_t behind);
  uint32_t backward(std::size_t behind);

  std::array<Factor, kRemembered> forward_{}, backward_{};  ///< by the length
};

}  // namespace uroce::wire
