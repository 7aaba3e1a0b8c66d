// A bound on ids.
#pragma once

#include <uroce/error.h>

namespace uroce::cm {

/// Bounds the ids of several programs together. The manager calls it under its lock, from any thread.
class IdBudget {
 public:
  virtual ~IdBudget() = default;
  /// Before an id is made. Errors: those of the call that makes it; a peer's request is refused.
  virtual Result<void> take() = 0;
  virtual void give_back() = 0;
};

}  // namespace uroce::cm
