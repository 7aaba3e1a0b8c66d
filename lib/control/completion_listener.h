// A completion queue as the event router sees it.
#pragma once

namespace uroce::control {

class Cq;

class CompletionListener {
 public:
  /// A completion came while the queue was armed. Engines' threads; takes no lock.
  virtual void fire() = 0;
  /// nullptr: it is none of a session.
  virtual Cq* queue() { return nullptr; }

 protected:
  ~CompletionListener() = default;
};

}  // namespace uroce::control
