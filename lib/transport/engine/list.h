// An intrusive list, doubly linked: adding and removing cost O(1) and allocate nothing.
#pragma once

namespace uroce::transport {

/// A place in a list.
template <class T>
struct ListLink {
  T* next = nullptr;
  T* previous = nullptr;
  bool listed = false;
};

/// `Access` has static functions next(), previous() and listed() that return references to an element's link.
template <class T, class Access>
class List {
 public:
  bool empty() const { return head_ == nullptr; }
  /// Are there at least two?
  bool several() const { return head_ != tail_; }
  T* front() const { return head_; }
  void push_back(T& added) {
    Access::listed(added) = true;
    Access::next(added) = nullptr;
    Access::previous(added) = tail_;
    (tail_ != nullptr ? Access::next(*tail_) : head_) = &added;
    tail_ = &added;
  }
  void push_front(T& added) {
    if (empty()) return push_back(added);
    Access::listed(added) = true;
    Access::next(added) = head_;
    Access::previous(*head_) = &added;
    head_ = &added;
  }
  /// The list must not be empty.
  T& pop_front() {
    T& taken = *head_;
    head_ = Access::next(taken);
    if (head_ == nullptr) tail_ = nullptr;
    Access::listed(taken) = false;
    return taken;
  }
  void remove(T& gone) {
    if (&gone == head_) return static_cast<void>(pop_front());
    T* const previous = Access::previous(gone);
    T* const next = Access::next(gone);
    Access::next(*previous) = next;
    (next != nullptr ? Access::previous(*next) : tail_) = previous;
    Access::listed(gone) = false;
  }
  /// The first becomes the last.
  void rotate() { push_back(pop_front()); }
  T* back() const { return tail_; }
  /// The last becomes the first.
  void rotate_back() {
    if (!several()) return;
    T& moved = *tail_;
    remove(moved);
    push_front(moved);
  }

 private:
  T* head_ = nullptr;
  T* tail_ = nullptr;  // the previous of the head is not kept up
};

/// Elements have a member `link`.
template <class T>
struct MemberLink {
  static T*& next(T& element) { return element.link.next; }
  static T*& previous(T& element) { return element.link.previous; }
  static bool& listed(T& element) { return element.link.listed; }
};

}  // namespace uroce::transport
