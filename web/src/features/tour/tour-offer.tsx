import { selectFrom } from "../../data/select";
import { useAnswer } from "../../data/use-answer";
import { Icon } from "../../ui/icons";

const STORES = selectFrom("stores", ["name"], "LIMIT 1");

interface TourOfferProps {
  readonly onStart: () => void;
  readonly onDismiss: () => void;
}

/** Offers the tour on a server without stores: there is nothing to look at yet. */
export function TourOffer({ onStart, onDismiss }: TourOfferProps) {
  const { data } = useAnswer(STORES);
  if (data === null || data.length > 0) return null;
  return (
    <section className="tour" aria-label="Welcome">
      <header className="tour-head">
        <h2>New here?</h2>
        <button type="button" className="ghost" aria-label="Close the welcome" onClick={onDismiss}>
          <Icon name="close" />
        </button>
      </header>
      <p>The tour shows live rows in a minute, with generated data. It needs no other system.</p>
      <div className="tour-actions">
        <button type="button" className="primary" onClick={onStart}>
          <Icon name="play" /> Take the tour
        </button>
      </div>
    </section>
  );
}
