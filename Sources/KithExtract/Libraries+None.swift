#if !(Media && canImport(CKithMedia))
import KithContent

/// What there is without the system's libraries for images and PDF: nothing.
enum Libraries {
    static func prepare() {}

    static func readPDF(_ source: FileSource, _ wanted: WantedContent, _ content: inout ReadContent) {
        content.properties.format = "PDF"
    }

    static func thumbnail(
        of source: FileSource, _ properties: ContentProperties, side: Int
    ) -> Result<ContentExchange.Thumbnail, ExtractionFailure> {
        .failure(ExtractionFailure(message: "this kith was built without the libraries for images"))
    }
}
#endif
