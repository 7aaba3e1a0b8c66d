// The state of a receiver behind a burst: whether it knows of more frames.
#pragma once

#include <cstdint>

namespace uroce::glue::kif {

enum class Behind : uint8_t {
  none,  ///< none are known of: the socket was empty, or brought little but forgeries
  more,  ///< other messages may be there
  rest,  ///< the other frames of the last message
};

}  // namespace uroce::glue::kif
