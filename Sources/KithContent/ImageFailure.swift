/// The reason there is no picture of an image.
package enum ImageFailure: String, Error {
    case damaged = "which is damaged"
    case tooLarge = "too large to be shown"
    case unknownKind = "of a kind that is not shown"
}
